"""Changes of images: what a claim writes, and when a pod runs its new images. Pure functions of the pod's record.

A pod runs its images when the kubelet reports that each container is ready, has another ID than before if its image
changed, and runs the wanted image. The kubelet may report a tag in another notation, or the tag of another repository
with the same content. Then an image ID that differs from the one before is the evidence. One change cannot be detected:
an image that is replaced by another name of the same content. Such a claim ends with StartTimeout.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from extender.claims.records import Before, ClaimMark, Container, ImageChange, Pairs, Phase, Pool, WarmPod

_STARTING = Phase.STARTING


def changes(pod: WarmPod, images: Pairs) -> tuple[ImageChange, ...]:
    """Return the changes that give the pod's containers these images."""
    wanted = dict(images)
    return tuple(
        ImageChange(place, each.name, each.image, wanted[each.name])
        for place, each in enumerate(pod.containers)
        if each.name in wanted and each.image != wanted[each.name]
    )


def started(mark: ClaimMark, pod: WarmPod, pool: Pool, images: Pairs, epoch: float) -> ClaimMark:
    """Return the mark of a claim with these images. `epoch`: the present time, seconds since 1970."""
    if not images:
        return mark
    idle = {each.name: pool.images.get(each.name, each.image) for each in pod.containers}
    is_changed = bool(changes(pod, images))
    return msgspec.structs.replace(
        mark,
        images=images,
        idle_images=tuple((name, idle[name]) for name, _ in images),
        before=_before(pod, images) if is_changed else (),
        running=() if is_changed else _ids(pod, images),
        starts_by=epoch + pool.start_seconds if is_changed else 0.0,
    )


def running(mark: ClaimMark, pod: WarmPod) -> ClaimMark:
    """Return the mark of a starting pod that now runs its images."""
    return msgspec.structs.replace(mark, before=(), running=_ids(pod, mark.images), starts_by=0.0)


def stopping(mark: ClaimMark, pod: WarmPod) -> ClaimMark:
    """Return the mark of a pod whose claim has ended and which gets its idle images back."""
    return msgspec.structs.replace(mark, before=_before(pod, mark.idle_images), running=(), starts_by=0.0)


def _before(pod: WarmPod, images: Pairs) -> tuple[Before, ...]:
    wanted = dict(images)
    return tuple(
        Before(each.name, each.container_id, each.image_id)
        for each in pod.containers
        if each.name in wanted and not same_image(wanted[each.name], each)
    )


def _ids(pod: WarmPod, images: Pairs) -> Pairs:
    wanted = dict(images)
    return tuple((each.name, each.container_id) for each in pod.containers if each.name in wanted and each.container_id)


def runs(pod: WarmPod, images: Pairs, before: tuple[Before, ...]) -> bool:
    """Whether the kubelet has reported that the pod runs these images. `before`: the containers to be replaced."""
    if not pod.is_ready or pod.is_terminating or not pod.is_observed:
        return False
    containers = {each.name: each for each in pod.containers}
    was = {each.container: each for each in before}
    return all(_runs(containers.get(name), image, was.get(name)) for name, image in images)


def _runs(container: Container | None, image: str, before: Before | None) -> bool:
    if container is None or container.image != image or not container.is_ready:
        return False
    if before is None:
        return same_image(image, container)
    if before.container_id and container.container_id == before.container_id:
        return False
    return same_image(image, container) or (bool(before.image_id) and container.image_id != before.image_id)


def was_restarted(pod: WarmPod, mark: ClaimMark) -> bool:
    """Whether a container that ran an image of this claim has restarted, so that the work in it is lost."""
    ids = {each.name: each.container_id for each in pod.containers}
    return any(ids.get(name, "") not in ("", began) for name, began in mark.running)


def same_image(wanted: str, container: Container) -> bool:
    """Whether the container runs this image, by its name or by its digest."""
    _, at, digest = wanted.rpartition("@")
    if at and container.image_id.endswith(digest):
        return True
    return bool(container.running_image) and _full(wanted) == _full(container.running_image)


def _full(image: str) -> str:
    """The image's name as container runtimes write it: docker.io/library/nginx:latest for nginx."""
    first, slash, rest = image.partition("/")
    if not slash:
        image = f"docker.io/library/{image}"
    elif "." not in first and ":" not in first and first != "localhost":
        image = f"docker.io/{image}"
    elif first == "docker.io" and "/" not in rest:
        image = f"docker.io/library/{rest}"
    _, _, last = image.rpartition("/")
    return image if ":" in last or "@" in last else f"{image}:latest"


def is_between(pod: WarmPod) -> bool:
    """Whether the pod's images are being changed."""
    return pod.leaving is not None or (pod.mark is not None and pod.phase == _STARTING)


def describe_missing(pods: Iterable[WarmPod]) -> str:
    """Return a text about the containers that do not run their claim's images yet."""
    return ", ".join(
        f"{pod.name}/{each.name} runs {each.running_image or 'nothing'}, ready {each.is_ready}"
        for pod in pods
        if pod.mark is not None and is_between(pod)
        for each in pod.containers
        if each.name in dict(pod.mark.images)
    )
