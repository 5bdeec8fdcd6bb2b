"""The paper beside ours."""
