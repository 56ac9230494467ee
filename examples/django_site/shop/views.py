"""The pages of the shop: one enqueues, the other tells what became of it."""

import json
from typing import Any

from django.http import Http404, HttpRequest, JsonResponse
from django.urls import path
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_GET, require_POST

from .tasks import recount, send_receipt

try:
    from django.tasks import default_task_backend
    from django.tasks.exceptions import TaskResultDoesNotExist
except ImportError:  # before Django 6
    from django_tasks import default_task_backend
    from django_tasks.exceptions import TaskResultDoesNotExist


@csrf_exempt  # for callers that are programs
@require_POST
def order_receipt(request: HttpRequest, order: int) -> JsonResponse:
    result = send_receipt.enqueue(order, to=json.loads(request.body)["to"])
    return JsonResponse(told(result), status=202)


@csrf_exempt
@require_POST
async def order_recount(request: HttpRequest, shelf: str) -> JsonResponse:
    return JsonResponse(told(await recount.aenqueue(shelf)), status=202)


@require_GET
def look(request: HttpRequest, id: str) -> JsonResponse:
    try:
        return JsonResponse(told(default_task_backend.get_result(id)))
    except TaskResultDoesNotExist:
        raise Http404(f"there is no job {id}") from None


def told(result: Any) -> dict[str, Any]:
    return {
        "id": result.id,
        "status": result.status,
        "attempts": result.attempts,
        "returned": result.return_value if result.status == "SUCCESSFUL" else None,
        "errors": [error.exception_class_path for error in result.errors],
    }


urlpatterns = [
    path("orders/<int:order>/receipt", order_receipt),
    path("shelves/<str:shelf>/recount", order_recount),
    path("jobs/<str:id>", look),
]
