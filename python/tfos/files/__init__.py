"""Files of this host and of the file systems that Hadoop reaches."""
