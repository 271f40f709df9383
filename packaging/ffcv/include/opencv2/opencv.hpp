// Stands in front of OpenCV's umbrella header, which would ask for every module.
#pragma once
#include <opencv2/core.hpp>
#include <opencv2/imgproc.hpp>
