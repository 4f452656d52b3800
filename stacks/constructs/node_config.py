"""Start-up settings of any node of Amazon Linux 2023."""

from typing import Final

_FRAME: Final = """\
MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="BOUNDARY"

--BOUNDARY
Content-Type: application/node.eks.aws

---
apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  featureGates:
    FastImagePull: true
{more}
--BOUNDARY--
"""
_LOCAL_DISKS: Final = """\
  instance:
    localStorage:
      strategy: RAID0
"""


def user_data(*, local_disks: bool) -> str:
    """nodeadm's configuration, to which EKS appends the cluster's address.

    ``local_disks`` makes one file system of the NVMe disks, with kubelet's and containerd's
    directories on it.
    """
    return _FRAME.format(more=_LOCAL_DISKS if local_disks else "")
