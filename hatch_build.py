"""Adds a software bill of materials to the wheel (PEP 770): `.dist-info/sboms/pykafka2.cdx.json`.

The wheel contains no other project's code: the document names the package and its declared requirements.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FILE_NAME = "pykafka2.cdx.json"


class SbomHook(BuildHookInterface):  # type: ignore[type-arg]
    """Writes the document before hatchling builds the wheel, and deletes it afterwards."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the document and add it to the files of the wheel."""
        self._folder = TemporaryDirectory()
        file = Path(self._folder.name) / FILE_NAME
        file.write_text(json.dumps(self._document(), indent=2) + "\n", encoding="utf-8")
        build_data["sbom_files"].append(str(file))

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Delete the temporary document; the wheel has a copy."""
        self._folder.cleanup()

    def _document(self) -> dict[str, Any]:
        """Return a CycloneDX 1.6 document. It has no timestamp, so builds are reproducible."""
        core = self.metadata.core
        requirements = [_requirement(one) for one in core.dependencies]
        root = f"pkg:pypi/{core.name}@{self.metadata.version}"
        return {
            "bomFormat": "CycloneDX",
            "specVersion": "1.6",
            "version": 1,
            "metadata": {
                "component": {
                    "type": "library",
                    "bom-ref": root,
                    "name": core.name,
                    "version": self.metadata.version,
                    "description": core.description,
                    "licenses": [{"license": {"id": core.license_expression}}],
                    "purl": root,
                }
            },
            "components": requirements,
            "dependencies": [
                {"ref": root, "dependsOn": [one["bom-ref"] for one in requirements]},
                *({"ref": one["bom-ref"]} for one in requirements),
            ],
        }


def _requirement(requirement: str) -> dict[str, Any]:
    """Return the component of a requirement, with its declared range: the installer chooses the version."""
    name = re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0]
    purl = f"pkg:pypi/{re.sub('[-_.]+', '-', name).lower()}"
    declared = {"name": "pykafka2:requirement", "value": requirement}
    return {"type": "library", "bom-ref": purl, "name": name, "purl": purl, "properties": [declared]}
