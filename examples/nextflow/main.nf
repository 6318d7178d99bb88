// Counts the reads and bases of each sample against a folder of reference files, and publishes one table.
// The same pipeline runs on local folders and, with the plugin nf-seqferry, on s3:// addresses.

params.reads = "$projectDir/data/reads"
params.reference = "$projectDir/data/reference"
params.results = 'results'

process COUNT {
    tag "$sample"

    input:
    tuple val(sample), path(reads)
    path reference

    output:
    path "${sample}.tsv"

    script:
    """
    references=\$(find -L $reference -type f | wc -l)
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
    path 'table'

    script:
    """
    mkdir -p table/samples
    cp -L $counts table/samples/
    sort $counts > 'table/all samples.tsv'
    """
}

workflow {
    reads = Channel.fromFilePairs("${params.reads}/*_R{1,2}.fastq.gz", checkIfExists: true)
    COUNT(reads, file(params.reference, checkIfExists: true))
    TABLE(COUNT.out.collect())
}
