"""Names of the classes, in the order of the labels in the original files."""


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


DIGITS = _words("0 1 2 3 4 5 6 7 8 9")
FASHION = (
    *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
    *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
)
CIFAR10 = _words("airplane automobile bird cat deer dog frog horse ship truck")
CIFAR100_FINE = _words(
    """
    apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel can castle
    caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur dolphin elephant
    flatfish forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion lizard lobster man maple_tree
    motorcycle mountain mouse mushroom oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree plain plate
    poppy porcupine possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk skyscraper snail snake spider
    squirrel streetcar sunflower sweet_pepper table tank telephone television tiger tractor train trout tulip turtle
    wardrobe whale willow_tree wolf woman worm
    """
)
CIFAR100_COARSE = _words(
    """
    aquatic_mammals fish flowers food_containers fruit_and_vegetables household_electrical_devices household_furniture
    insects large_carnivores large_man-made_outdoor_things large_natural_outdoor_scenes
    large_omnivores_and_herbivores medium_mammals non-insect_invertebrates people reptiles small_mammals trees
    vehicles_1 vehicles_2
    """
)
IMAGENETTE = _words(
    """
    n01440764 n02102040 n02979186 n03000684 n03028079 n03394916 n03417042 n03425413 n03445777 n03888257
    """
)
IMAGENET100 = _words(
    """
    n01558993 n01692333 n01729322 n01735189 n01749939 n01773797 n01820546 n01855672 n01978455 n01980166 n01983481
    n02009229 n02018207 n02085620 n02086240 n02086910 n02087046 n02089867 n02089973 n02090622 n02091831 n02093428
    n02099849 n02100583 n02104029 n02105505 n02106550 n02107142 n02108089 n02109047 n02113799 n02113978 n02114855
    n02116738 n02119022 n02123045 n02138441 n02172182 n02231487 n02259212 n02326432 n02396427 n02483362 n02488291
    n02701002 n02788148 n02804414 n02859443 n02869837 n02877765 n02974003 n03017168 n03032252 n03062245 n03085013
    n03259280 n03379051 n03424325 n03492542 n03494278 n03530642 n03584829 n03594734 n03637318 n03642806 n03764736
    n03775546 n03777754 n03785016 n03787032 n03794056 n03837869 n03891251 n03903868 n03930630 n03947888 n04026417
    n04067472 n04099969 n04111531 n04127249 n04136333 n04229816 n04238763 n04336792 n04418357 n04429376 n04435653
    n04485082 n04493381 n04517823 n04589890 n04592741 n07714571 n07715103 n07753275 n07831146 n07836838 n13037406
    n13040303
    """
)
