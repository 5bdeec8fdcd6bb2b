"""Small tools that know nothing of networks: errors, files, JSON, progress, the machine."""
