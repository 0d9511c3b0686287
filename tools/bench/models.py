# SPDX-License-Identifier: GPL-2.0
"""The parameters of well-known networks, layer by layer, computed from their published
architectures. What a training step reduces is the gradient of each layer, beginning
with the last one.

Each function yields the number of parameters (weights and biases together) of the
layers in the order of the forward pass; normalisations are layers of their own.
"""

PIECE = 64 << 20        # bytes: larger layers are reduced in pieces


def conv(inputs, outputs, kernel, bias=True):
    return inputs * outputs * kernel * kernel + (outputs if bias else 0)


def linear(inputs, outputs):
    return inputs * outputs + outputs


def norm(channels):
    return 2 * channels


def alexnet():
    """Krizhevsky 2014, "One weird trick": the single-column form"""
    yield conv(3, 64, 11)
    yield conv(64, 192, 5)
    yield conv(192, 384, 3)
    yield conv(384, 256, 3)
    yield conv(256, 256, 3)
    yield linear(256 * 6 * 6, 4096)
    yield linear(4096, 4096)
    yield linear(4096, 1000)


def vgg16():
    """Simonyan and Zisserman 2014, configuration D"""
    inputs = 3
    for width, depth in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(depth):
            yield conv(inputs, width, 3)
            inputs = width
    yield linear(512 * 7 * 7, 4096)
    yield linear(4096, 4096)
    yield linear(4096, 1000)


def bottleneck(inputs, width, project):
    for i, o, k in ((inputs, width, 1), (width, width, 3), (width, 4 * width, 1)):
        yield conv(i, o, k, bias=False)
        yield norm(o)
    if project:
        yield conv(inputs, 4 * width, 1, bias=False)
        yield norm(4 * width)


def resnet50():
    """He et al. 2015, 50 layers"""
    yield conv(3, 64, 7, bias=False)
    yield norm(64)
    inputs = 64
    for width, depth in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for i in range(depth):
            yield from bottleneck(inputs, width, project=i == 0)
            inputs = 4 * width
    yield linear(2048, 1000)


def bert_base():
    """Devlin et al. 2018, uncased vocabulary, with the pooler"""
    hidden, vocabulary, positions, segments = 768, 30522, 512, 2
    for rows in (vocabulary, positions, segments):
        yield rows * hidden
    yield norm(hidden)
    for _ in range(12):
        for _ in range(4):          # query, key, value, output
            yield linear(hidden, hidden)
        yield norm(hidden)
        yield linear(hidden, 4 * hidden)
        yield linear(4 * hidden, hidden)
        yield norm(hidden)
    yield linear(hidden, hidden)


MODELS = {"alexnet": alexnet, "vgg16": vgg16, "resnet50": resnet50, "bert-base": bert_base}


def operations(model, element=4):
    """Bytes of the all-reduces of one step, in the order of the backward pass"""
    result = []
    for parameters in reversed(list(MODELS[model]())):
        size = parameters * element
        while size > PIECE:
            result.append(PIECE)
            size -= PIECE
        result.append(size)
    return result
