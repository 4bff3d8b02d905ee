"""The studio's routes, private to its page, and the page's files; what they answer from is imported when asked for."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request, Response

from nonneg_core.errors import Forbidden, NotFound, ParameterInvalid
from nonneg_server.api.native_answers import ErrorAnswer
from nonneg_server.api.native_request import error_body, query_parameters, read_request
from nonneg_server.api.route import Dialect, Route, embedding, json_response, open_to_all
from nonneg_server.requests.parameters import (
    Bars,
    Body,
    ComparedPair,
    DimensionName,
    Dropped,
    Export,
    Listed,
    LocatedDimension,
    Mark,
    Paged,
    SavedSearch,
    Searched,
    Typed,
    from_json,
)

if TYPE_CHECKING:
    from nonneg_server.studio.studio_state import Studio

router = APIRouter(route_class=Route, include_in_schema=False)


@router.get("/studio")
async def get_studio(request: Request) -> Response:
    """Answer what is looked at: model, folder, lengths."""
    return json_response(await asyncio.to_thread(_studio(request).overview))


@router.get("/studio/photos")
async def get_photos(request: Request) -> Response:
    """Answer the indexed photos, by name."""
    studio, listing = _studio(request), query_parameters(request.scope["query_string"], Listed)
    return json_response(await asyncio.to_thread(studio.photos, listing))


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


@router.get("/studio/photos/{photo}/whole")
async def get_whole(request: Request) -> Response:
    """Answer a photo in its own size, as a JPEG without what stood beside its pixels."""
    from nonneg_server.studio.pictures import WHOLE

    return await _picture(request, lambda studio, photo, _, deadline: studio.image(photo, deadline, WHOLE))


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


@router.get("/studio/atlas")
async def get_atlas(request: Request) -> Response:
    """Answer the folder's dimensions with their strongest photos, the best first."""
    studio, listing = _studio(request), query_parameters(request.scope["query_string"], Paged)
    return json_response(await asyncio.to_thread(studio.atlas, listing))


@router.get("/studio/library")
async def get_library(request: Request) -> Response:
    """Answer the user's tags, albums, searches and names."""
    studio = _studio(request)
    return json_response(await asyncio.to_thread(lambda: studio.library.overview(studio.cards)))


@router.get("/studio/completions")
async def get_completions(request: Request) -> Response:
    """Answer what a word that is being typed may become."""
    studio, typed = _studio(request), query_parameters(request.scope["query_string"], Typed)
    return json_response(await asyncio.to_thread(lambda: studio.library.completions(typed.text, studio.cards)))


@router.put("/studio/marks")
async def put_marks(request: Request) -> Response:
    """Give photos a tag or an album, or take it from them."""
    studio, mark = _studio(request), await _meant(request, Mark)
    return json_response(await asyncio.to_thread(studio.library.mark, mark))


@router.put("/studio/names")
async def put_name(request: Request) -> Response:
    """Name a dimension, or take its name back."""
    studio, name = _studio(request), await _meant(request, DimensionName)
    return json_response(await asyncio.to_thread(studio.name, name))


@router.put("/studio/searches")
async def put_search(request: Request) -> Response:
    """Save a search, or forget it."""
    studio, search = _studio(request), await _meant(request, SavedSearch)
    return json_response(await asyncio.to_thread(studio.library.save, search))


@router.post("/studio/export")
async def post_export(request: Request) -> Response:
    """Answer selected photos as a table, a list of paths or XMP sidecars, or copy their files into a folder."""
    from nonneg_server.http.origin import is_loopback

    studio, export = _studio(request), await _meant(request, Export)
    if export.form != "copy":
        content, media, name = await asyncio.to_thread(lambda: studio.library.export(export, studio.cards))
        return Response(content, media_type=media, headers={"content-disposition": f"attachment; filename={name}"})
    if not is_loopback(request.app.state.settings.host):
        raise Forbidden("photos are copied on loopback alone", fix="export a list of paths", field="form", value="copy")
    return json_response(await asyncio.to_thread(lambda: studio.library.copy(export, studio.cards)))


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


async def _meant(request: Request, kind: type[Body]) -> Body:
    """Return the JSON body of a request that a program or the page has sent, and no form of another site."""
    from nonneg_server.requests.bodies import read_object
    from nonneg_server.studio.browser_access import check_meant

    check_meant(request)
    return from_json(kind, await read_object(request))


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
