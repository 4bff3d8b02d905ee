"""Mathematics of curation: copies, neighbours, groups, clusters, outliers, subsets, doubtful labels, differences."""
