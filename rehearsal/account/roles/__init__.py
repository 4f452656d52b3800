"""What runs in place of each container of the charts' pods.

Scripts of the pods run as they are, with the real AWS CLI against the embedded AWS. In place of
what needs a device, a large file or the internet stands something small.
"""
