"""Hooks of the build: a software bill of materials in the wheel, and the page on the package index.

The bill of materials (PEP 770) is `.dist-info/sboms/pykafka2.cdx.json`.  The wheel contains no other
project's code: the document names the package and its declared requirements.

The page on the package index is README.md with absolute links.  The addresses of the repository and the site
are in `[tool.pykafka2]` of pyproject.toml, and nowhere else.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

FILE_NAME = "pykafka2.cdx.json"
CODE_OR_LINK = re.compile(
    r"^```.*?^```|(?P<image>!?)\[(?P<text>[^\]]+)\]\((?P<target>(?!\w+:|#)[^)\s]+)\)",
    re.MULTILINE | re.DOTALL,
)
"""A block of code, or a link or image whose target is a path in the repository."""


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


class AddressesHook(MetadataHookInterface):
    """Sets the metadata that depend on the addresses: `[project.urls]` and the long description."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        """Set `urls` and `readme`, which are dynamic."""
        root = Path(self.root)
        addresses = checked_addresses(
            tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pykafka2"]
        )
        tag = f"v{metadata['version']}"
        text = absolute_links((root / "README.md").read_text(encoding="utf-8"), tag=tag, **addresses)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
        metadata["urls"] = project_urls(tag=tag, **addresses)


def checked_addresses(addresses: Mapping[str, str]) -> dict[str, str]:
    """Return the addresses without slashes at their ends. Raise ValueError."""
    for name, address in addresses.items():
        if address and not re.fullmatch(r"https://[^\s()/]+(/[^\s()]*)?", address):
            raise ValueError(f"{name} = {address!r} in [tool.pykafka2] must be empty or start with https://")
    return {name: address.rstrip("/") for name, address in addresses.items()}


def project_urls(repository: str, site: str, tag: str) -> dict[str, str]:
    """Return the links of the package index; only those whose address is known."""
    urls = {"Documentation": site} if site else {}
    if repository:
        urls["Source"] = repository
        urls["Issues"] = f"{repository}/issues"
        urls["Changelog"] = f"{repository}/blob/{tag}/CHANGELOG.md"
    return urls


def absolute_links(text: str, repository: str, site: str, tag: str) -> str:
    """Return Markdown whose links and images work outside the repository.

    Pages and images of `docs/` are on the site, all files in the repository at the release's tag.  A link
    whose address is unknown becomes plain text; an image is left out.
    """

    def turned(found: re.Match[str]) -> str:
        if found["target"] is None:
            return found[0]
        path, hash_mark, anchor = found["target"].partition("#")
        if site and path.startswith("docs/"):
            page = re.sub(r"\.md$", "/", path.removeprefix("docs/"))
            address = f"{site}/{page}"
        elif repository:
            address = f"{repository}/{'raw' if found['image'] else 'blob'}/{tag}/{path}"
        else:
            return "" if found["image"] else found["text"]
        return f"{found['image']}[{found['text']}]({address}{hash_mark}{anchor})"

    return CODE_OR_LINK.sub(turned, text)
