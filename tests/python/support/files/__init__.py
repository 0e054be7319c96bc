"""File systems and files as tests use them: a faulty one, WebHDFS, remote files, TFRecords."""
