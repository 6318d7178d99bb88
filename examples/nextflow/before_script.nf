// The same counts, with each task fetching its own inputs before it begins: no plugin, and no s3:// path in Nextflow.

params.reads = null // s3://bucket/prefix
params.samples = null // names, with commas between them
params.results = 'results'
params.aws = 'seqferry aws'

process COUNT {
    tag "$sample"
    // Inputs are values, so that Nextflow does not stage them itself.
    beforeScript { "${params.aws} s3 cp --only-show-errors --recursive '${params.reads}/${sample}/' reads/" }

    input:
    val sample

    output:
    path "${sample}.tsv"

    script:
    """
    for file in reads/*.fastq.gz; do
        gzip -dc \$file | awk -v file=\$(basename \$file) \
            'NR % 4 == 2 { reads++; bases += length(\$0) } END { print file "\\t" reads "\\t" bases }'
    done > ${sample}.tsv
    """
}

process TABLE {
    publishDir params.results, mode: 'copy'

    input:
    path counts

    output:
    path 'all samples.tsv'

    script:
    "sort $counts > 'all samples.tsv'"
}

workflow {
    COUNT(Channel.fromList(params.samples.toString().tokenize(',')))
    TABLE(COUNT.out.collect())
}
