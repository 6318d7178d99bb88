// The counts of before_script.nf with one tar of inputs in the storage: each task unpacks its own members of it.

params.reads = null // s3://bucket/reads.tar, with reads/SAMPLE_R1.fastq.gz and so on
params.samples = null // names, with commas between them
params.results = 'results'
params.seqferry = 'seqferry'

process COUNT {
    tag "$sample"
    // Inputs are values, so that Nextflow does not stage them itself. Each task has a record of its own.
    beforeScript { """
        export SEQFERRY_STATE_DIR=\$PWD/.seqferry
        ${params.seqferry} unpack --quiet --include 'reads/${sample}_*' '${params.reads}' ./
        """.stripIndent() }

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
