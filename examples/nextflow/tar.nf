// The counts with one tar of inputs in the storage, of which each task unpacks its own members, and one tar of results.

params.reads = null // s3://bucket/reads.tar, with reads/SAMPLE_R1.fastq.gz and so on
params.samples = null // names, with commas between them
params.packed = null // s3://bucket/results.tar
params.results = 'results'
params.seqferry = 'seqferry'

process COUNT {
    tag "$sample"
    // Inputs are values, so that Nextflow does not stage them itself. Each task has a record of its own.
    beforeScript { """
        export SEQFERRY_STATE_DIR=\$PWD/.seqferry
        ${params.seqferry} unpack --quiet --exclude '*' --include 'reads/${sample}_*' '${params.reads}' ./
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
    // It runs after a script that failed as well. Where packing fails, the task fails.
    afterScript { params.packed ? """
        export SEQFERRY_STATE_DIR=\$PWD/.seqferry
        [[ \${nxf_main_ret:=0} != 0 ]] || ${params.seqferry} pack --quiet table/ '${params.packed}'
        """.stripIndent() : '' }

    input:
    path counts

    output:
    path 'table'

    script:
    """
    mkdir -p table/samples
    cp -L $counts table/samples/
    sort $counts > 'table/all samples.tsv'
    """
}

workflow {
    COUNT(Channel.fromList(params.samples.toString().tokenize(',')))
    TABLE(COUNT.out.collect())
}
