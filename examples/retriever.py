"""A retriever as LangChain and LlamaIndex know them, without either: `retriever.py INDEX QUERY`.

`invoke(photo)` gives documents with `page_content` and `metadata`. Where LangChain is installed, derive the class from
`langchain_core.retrievers.BaseRetriever` and call `find` in `_get_relevant_documents`; in LlamaIndex derive it from
`BaseRetriever` and call it in `_retrieve`. Needs a server and the extra `search`.
"""

import sys
from dataclasses import dataclass, field
from typing import Any

from nonneg_client import Client
from nonneg_client.search import Index


@dataclass
class Document:
    """What is handed on: for a chain that sees, the path of the photo; its fields beside it."""

    page_content: str
    metadata: dict[str, Any] = field(default_factory=dict)


class PhotoRetriever:
    """Photos of an index that are like a photo."""

    def __init__(self, index: str, *, k: int = 4, where: dict[str, Any] | None = None) -> None:
        self.index, self.k, self.where = index, k, where

    def invoke(self, query: str) -> list[Document]:
        with Client() as client, Index.open(self.index) as index:
            vector = client.embed(query).shorten(index.description.dimensions)
            hits = index.search(vector, k=self.k, where=self.where)
            return [Document(hit.id, {**hit.payload, "score": hit.score}) for hit in hits]


if __name__ == "__main__":
    for document in PhotoRetriever(sys.argv[1]).invoke(sys.argv[2]):
        print(document.page_content, document.metadata)
