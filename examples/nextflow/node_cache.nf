// The counts of main.nf, with the reference fetched through a cache of the node: its tasks and its mounts share it, and
// each object is fetched once, however many tasks and runs need it.

params.reads = "$projectDir/data/reads"
params.reference = null // s3://bucket/prefix
params.cache = null // a folder of the node's own disk
params.results = 'results'
params.seqferry = 'seqferry'

process COUNT {
    tag "$sample"
    // The reference is a value, so that Nextflow does not stage it itself. Each task has a record of its own.
    beforeScript { """
        export SEQFERRY_STATE_DIR=\$PWD/.seqferry
        ${params.seqferry} cp --quiet --cache '${params.cache}' '${params.reference}/' reference/
        """.stripIndent() }

    input:
    tuple val(sample), path(reads)

    output:
    path "${sample}.tsv"

    script:
    """
    references=\$(find reference -type f | wc -l)
    for file in $reads; do
        gzip -dc \$file | awk -v file=\$(basename \$file) -v references=\$references \
            'NR % 4 == 2 { reads++; bases += length(\$0) } END { print file "\\t" reads "\\t" bases "\\t" references }'
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
    COUNT(Channel.fromFilePairs("${params.reads}/*_R{1,2}.fastq.gz", checkIfExists: true))
    TABLE(COUNT.out.collect())
}
