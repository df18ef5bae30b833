"""Images from folders and from archives of files, their labels, and augmentation."""
