// A program without Python that runs a package of AOTInductor, and compares its results.
//
//     torch_package MODEL.pt2 TENSORS.pt
//
// TENSORS.pt is what `torch.save((inputs, results), path)` wrote: two lists of tensors. Exits with 0
// if the results of the package are close to those of the file. `torch_package.py` builds the program.
#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>
#include <torch/csrc/jit/serialization/pickle.h>

#include <exception>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

static std::vector<at::Tensor> tensors(const c10::IValue &value) {
    std::vector<at::Tensor> all;
    for (const c10::IValue &one : value.toListRef()) all.push_back(one.toTensor());
    return all;
}

static int run(const std::string &package, const std::string &path) {
    std::ifstream file(path, std::ios::binary);
    const std::vector<char> data{std::istreambuf_iterator<char>(file), {}};
    const auto pair = torch::jit::pickle_load(data).toTuple();
    const std::vector<at::Tensor> inputs = tensors(pair->elements()[0]);
    const std::vector<at::Tensor> expected = tensors(pair->elements()[1]);

    const c10::InferenceMode without_gradients;
    torch::inductor::AOTIModelPackageLoader model(package);
    const std::vector<at::Tensor> results = model.run(inputs);

    bool close = results.size() == expected.size();
    for (size_t i = 0; close && i < results.size(); i++) {
        const double difference = (results[i] - expected[i]).abs().max().item<double>();
        std::cout << "result " << i << " on " << results[i].device() << ": " << results[i].sizes()
                  << ", largest difference " << difference << "\n";
        close = at::allclose(results[i], expected[i], 1e-3, 1e-3);
    }
    return close ? 0 : 1;
}

int main(int count, char **words) {
    if (count != 3) {
        std::cerr << "usage: " << words[0] << " MODEL.pt2 TENSORS.pt\n";
        return 2;
    }
    try {
        return run(words[1], words[2]);
    } catch (const std::exception &error) {
        std::cerr << error.what() << "\n";
        return 1;
    }
}
