"""Files of VTK: fields on a regular grid, and lists of such files over time."""

from __future__ import annotations

import base64
import struct
from collections.abc import Mapping
from pathlib import Path
from xml.etree.ElementTree import Element, ElementTree, SubElement

import numpy as np

from tessella.machine.arrays import Array

UNSTRUCTURED, STRUCTURED = (".vtu", ".vtk"), ".vts"


def write_grid(
    target: Path,
    points: Array,
    counts: tuple[int, ...],
    fields: dict[str, Array],
    inside: np.ndarray,
) -> None:
    """Fields at the points of a grid, its last axis fastest; an unstructured file has those cells
    only whose corners are all inside."""
    place = np.zeros((len(points), 3))
    place[:, : len(counts)] = points
    if target.suffix == STRUCTURED:
        _write_structured(target, counts, place, fields)
        return
    try:
        import meshio
    except ImportError:
        raise ImportError(
            f"{target.suffix} files need meshio: pip install 'tessella[vtk]', or write {STRUCTURED}"
        ) from None
    kind = ("line", "quad", "hexahedron")[len(counts) - 1]
    cells = _cells(counts)
    cells = cells[np.all(inside[cells], axis=1)]
    used, numbers = np.unique(cells, return_inverse=True)
    mesh = meshio.Mesh(
        place[used],
        [(kind, numbers.reshape(cells.shape))],
        point_data={name: values[used] for name, values in fields.items()},
    )
    mesh.write(target)


def write_series(target: Path, files: Mapping[str, float]) -> Path:
    """The collection that ParaView opens: files by name, and their times."""
    whole = Element("VTKFile", type="Collection", version="0.1", byte_order="LittleEndian")
    collection = SubElement(whole, "Collection")
    for name, moment in files.items():
        SubElement(collection, "DataSet", timestep=f"{moment:.17g}", part="0", file=name)
    ElementTree(whole).write(target, xml_declaration=True, encoding="utf-8")
    return target


def _cells(counts: tuple[int, ...]) -> np.ndarray:
    """Corners of all cells of a grid whose last axis is fastest, in VTK's order."""
    numbers = np.arange(int(np.prod(counts))).reshape(counts)
    corners = {
        1: ((0,), (1,)),
        2: ((0, 0), (1, 0), (1, 1), (0, 1)),
        3: (
            *((0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 0)),
            *((0, 0, 1), (1, 0, 1), (1, 1, 1), (0, 1, 1)),
        ),
    }[len(counts)]
    found = [
        numbers[tuple(slice(c, n - 1 + c) for c, n in zip(corner, counts, strict=True))].ravel()
        for corner in corners
    ]
    return np.stack(found, axis=1)


def _write_structured(
    target: Path, counts: tuple[int, ...], place: Array, fields: dict[str, Array]
) -> None:
    """An XML StructuredGrid with its numbers inline; VTK counts the first axis fastest."""
    extent = " ".join(f"0 {n - 1}" for n in (*counts, *(1,) * (3 - len(counts))))
    root = Element(
        "VTKFile",
        type="StructuredGrid",
        version="1.0",
        byte_order="LittleEndian",
        header_type="UInt64",
    )
    grid = SubElement(root, "StructuredGrid", WholeExtent=extent)
    piece = SubElement(grid, "Piece", Extent=extent)

    def add(parent: Element, name: str, values: Array) -> None:
        components = values.shape[1] if values.ndim > 1 else 1
        turned = values.reshape(*counts, components).transpose(
            *reversed(range(len(counts))), len(counts)
        )
        data = np.ascontiguousarray(turned, dtype="<f8").tobytes()
        array = SubElement(
            parent,
            "DataArray",
            type="Float64",
            Name=name,
            NumberOfComponents=str(components),
            format="binary",
        )
        array.text = base64.b64encode(struct.pack("<Q", len(data)) + data).decode()

    data = SubElement(piece, "PointData", Scalars=next(iter(fields)))
    for name, values in fields.items():
        add(data, name, values)
    add(SubElement(piece, "Points"), "points", place)
    ElementTree(root).write(target, xml_declaration=True, encoding="utf-8")
