# SPDX-License-Identifier: GPL-2.0-only
"""What holds for the whole move, and where it leaves its files."""
import remote.settings


class Settings(remote.settings.Settings):
    """Made once from the command line."""

    def note_path(self, uuid):
        """The note on the target that the VM with this UUID is to start there."""
        return self.root / f"run/dlend/moving-{uuid}"

    def mark_path(self, uuid):
        """The mark of libvirt's hook.  When a VM stops, the hook stops its marked devices (dist/libvirt-mdevs)."""
        return self.root / f"run/dlend/hook-{uuid}"
