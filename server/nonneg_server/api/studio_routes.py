"""The studio's routes, private to its page, and the page's files; what they answer from is imported when asked for."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request, Response

from nonneg_core.errors import NotFound, ParameterInvalid
from nonneg_server.api.native_answers import ErrorAnswer
from nonneg_server.api.native_request import error_body, query_parameters, read_request
from nonneg_server.api.route import Dialect, Route, embedding, json_response, open_to_all
from nonneg_server.requests.parameters import Bars, ComparedPair, Dropped, Listed, LocatedDimension, Searched

if TYPE_CHECKING:
    from nonneg_server.studio.studio_state import Studio

router = APIRouter(route_class=Route, include_in_schema=False)


@router.get("/studio")
async def get_studio(request: Request) -> Response:
    """Answer what is looked at: model, folder, lengths."""
    return json_response(_studio(request).overview())


@router.get("/studio/photos")
async def get_photos(request: Request) -> Response:
    """Answer the indexed photos, by name."""
    studio, listing = _studio(request), query_parameters(request.scope["query_string"], Listed)
    return json_response(studio.photos(listing.limit, listing.offset, listing.name))


@router.get("/studio/photos/{photo}")
async def get_photo(request: Request) -> Response:
    """Answer one photo's dimensions, the strongest first."""
    studio, options = _studio(request), query_parameters(request.scope["query_string"], Bars)
    return json_response(await asyncio.to_thread(studio.bars, _photo(request), options))


@router.get("/studio/photos/{photo}/thumbnail")
async def get_thumbnail(request: Request) -> Response:
    """Answer a photo, at most 320 pixels wide and high."""
    return await _picture(request, lambda studio, *given: studio.thumbnail(*given))


@router.get("/studio/photos/{photo}/image")
async def get_image(request: Request) -> Response:
    """Answer a photo, at most 1280 pixels wide and high."""
    return await _picture(request, lambda studio, photo, _, deadline: studio.image(photo, deadline))


@router.get("/studio/photos/{photo}/where")
async def get_where(request: Request) -> Response:
    """Answer which cells of a photo a dimension comes from."""
    studio, target = _studio(request), query_parameters(request.scope["query_string"], LocatedDimension)
    return json_response(await studio.where(_photo(request), target.dimension, _deadline(request)))


@router.post("/studio/uploads")
@embedding
async def post_upload(request: Request) -> Response:
    """Embed a photo to search with; it is kept in memory alone, for a while."""
    from nonneg_server.studio.browser_access import check_meant

    studio = _studio(request)
    check_meant(request)
    photos, options = await read_request(request, Dropped)
    if len(photos) != 1:
        raise ParameterInvalid(
            f"one photo at a time, not {len(photos)}", fix="send one", field="images", value=len(photos), limit=1
        )
    return json_response(await studio.upload(request, photos[0], options))


@router.get("/studio/search")
async def get_search(request: Request) -> Response:
    """Find photos like one, or by dimensions, with the parts that make each score."""
    studio, query = _studio(request), query_parameters(request.scope["query_string"], Searched)
    return json_response(await studio.search(request, query))


@router.get("/studio/pair")
async def get_pair(request: Request) -> Response:
    """Compare two photos: what only one has, and what they share."""
    studio, comparison = _studio(request), query_parameters(request.scope["query_string"], ComparedPair)
    return json_response(await studio.pair(comparison, _deadline(request)))


@router.get("/studio/dimensions/{dimension}")
async def get_meaning(request: Request) -> Response:
    """Answer one dimension here: strongest photos, company, drift."""
    text: str = request.path_params["dimension"]
    if not (text.isascii() and text.isdecimal()) or len(text) > 9:
        raise NotFound(f"dimension {text[:40]!r} is not a number", fix="name it by its number", field="dimension")
    return json_response(await asyncio.to_thread(_studio(request).meaning, int(text)))


@router.get("/studio/groups")
async def get_groups(request: Request) -> Response:
    """Answer duplicates, clusters and outliers: begins the search; ask again until found."""
    return json_response(_studio(request).grouping.sections())


@router.get("/studio/groups/progress")
async def get_groups_progress(request: Request) -> Response:
    """Answer how far the search for groups is, without beginning it."""
    return json_response(_studio(request).grouping.progress())


@router.get("/studio/page/{file}")
@open_to_all
async def get_file(request: Request) -> Response:
    """Answer one of the page's own files."""
    from nonneg_server.studio.browser_access import HEADERS, asset

    _check_on(request)
    page_file = asset(request.path_params["file"])
    headers = {**HEADERS, "etag": page_file.tag}
    if request.headers.get("if-none-match") == page_file.tag:
        return Response(status_code=304, headers=headers)
    return Response(page_file.content, headers=headers, media_type=page_file.type)


def _studio(request: Request) -> "Studio":
    """Return the studio of this server, made when it is first asked for."""
    _check_on(request)
    state: Any = request.app.state
    if state.studio is None:
        from nonneg_server.studio.studio_state import Studio

        state.studio = Studio(state)
    current: Studio = state.studio
    return current


def _check_on(request: Request) -> None:
    from nonneg_server.studio.browser_access import is_on

    if not is_on(request.app.state.settings):
        raise NotFound("the studio is off on other than loopback", fix="start the server with --studio", field="studio")


def _deadline(request: Request) -> float:
    at: float = request.scope["state"]["deadline"]()
    return at


def _photo(request: Request) -> str:
    photo_id: str = request.path_params["photo"]
    return photo_id


async def _picture(request: Request, make: "Callable[[Studio, str, str, float], Awaitable[bytes]]") -> Response:
    """Answer a JPEG, by what makes it of the photo's id and stamp; nothing where the browser has it already."""
    studio, photo = _studio(request), _photo(request)
    stamp = await asyncio.to_thread(studio.stamp, photo)
    headers = {
        "cache-control": "private, no-cache",  # the browser asks whether it is still so
        "etag": f'"{stamp}"',
        "cross-origin-resource-policy": "same-origin",
        "x-content-type-options": "nosniff",
    }
    if request.headers.get("if-none-match") == headers["etag"]:
        return Response(status_code=304, headers=headers)
    content = await make(studio, photo, stamp, _deadline(request))
    return Response(content, media_type="image/jpeg", headers=headers)


STUDIO = Dialect("studio", ("/studio",), error_body, ErrorAnswer, tuple(router.routes))
