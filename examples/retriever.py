"""A LangChain retriever over an index: `retriever.py INDEX QUERY`.

Needs a server, langchain-core and the extra `search`.
A query is a sentence, the path of a photo or an expression, as in `nonneg search`. The index is opened once. For
LlamaIndex, derive from its `BaseRetriever` and make a `NodeWithScore` of each hit in `_retrieve`.
"""

import sys
from typing import Any

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import PrivateAttr

from nonneg_client import Client
from nonneg_client.search import Index


class PhotoRetriever(BaseRetriever):
    """Photos of an index that a sentence describes, or that are like a photo; `match` says which lie above chance."""

    index: str
    k: int = 4
    where: dict[str, Any] | None = None
    _client: Client = PrivateAttr(default_factory=Client)
    _opened: Index | None = PrivateAttr(default=None)

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        """Return a document for each hit: its path, with its fields and score."""
        self._opened = self._opened or Index.open(self.index)
        hits = self._opened.search(query, k=self.k, through=self._client, where=self.where)
        return [Document(page_content=hit.id, metadata={**hit.payload, "match": hit.match}) for hit in hits]


if __name__ == "__main__":
    for document in PhotoRetriever(index=sys.argv[1]).invoke(sys.argv[2]):
        print(document.page_content, document.metadata)
