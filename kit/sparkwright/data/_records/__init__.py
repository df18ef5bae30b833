"""Hadoop's SequenceFile and MapFile, and TFRecord."""
