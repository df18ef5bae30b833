"""A look at data before it is loaded: folders, first rows and images, and what is wrong there."""
