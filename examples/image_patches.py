"""
Explain an image classifier
===========================

The players are the 16 patches of a small image of a digit; an absent patch is painted in the mean
of the training images. A coalition's value is the network's logit of the class that it predicts.
Any classifier of images or texts becomes a game like this: paint over superpixels, mask tokens.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier

from shapiq_oddshap import OddGP

images, labels = load_digits(return_X_y=True)
images /= 16
model = MLPClassifier((32,), solver="lbfgs", alpha=0.1, max_iter=500, random_state=0)
model.fit(images[200:800], labels[200:800])
image, background = images[3], images.mean(axis=0)
predicted = int(model.predict(image[None])[0])

# %%
# The game gets coalitions as boolean rows, of shape ``(m, 16)``, and returns ``m`` values. Many rows
# at a time are what networks are fast at.
patch = np.add.outer(np.arange(8) // 2 * 4, np.arange(8) // 2).ravel()  # pixel -> patch


def game(coalitions):
    """Return the predicted class's logit with the absent patches painted over."""
    painted = np.where(coalitions[:, patch], image, background)
    probabilities = model.predict_proba(painted)[:, predicted]
    return np.log(probabilities) - np.log1p(-probabilities)


# %%
# The odd Gaussian process tells how sure it is of every patch. An evaluation costs little here, but
# 300 of the 65,536 coalitions are enough to see that.
values, variances = OddGP(n=16, random_state=0).approximate_with_variance(300, game)
phi, error = values.get_n_order_values(1), 1.645 * np.sqrt(variances)

figure, (left, right) = plt.subplots(1, 2, figsize=(7, 3.4), layout="constrained")
left.imshow(image.reshape(8, 8), cmap="gray_r")
left.set_title(f"classified as {predicted}")
extreme = np.abs(phi).max()
shown = right.imshow(phi.reshape(4, 4), cmap="RdBu_r", vmin=-extreme, vmax=extreme)
for player, (value, half) in enumerate(zip(phi, error, strict=True)):
    ink = {"color": "white" if abs(value) > extreme / 2 else "black", "fontsize": 8}
    text = f"{value:+.2f}\n±{half:.2f}"
    right.text(player % 4, player // 4, text, ha="center", va="center", **ink)
right.set_title("attribution of the patches, 90 % intervals")
figure.colorbar(shown, ax=right)
for axes in (left, right):
    axes.set_axis_off()
