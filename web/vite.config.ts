import { existsSync, renameSync, rmSync } from 'node:fs'
import { brotliCompressSync, constants, gzipSync } from 'node:zlib'
import { svelte } from '@sveltejs/vite-plugin-svelte'
import type { Plugin } from 'vite'
import { defineConfig } from 'vitest/config'

/** Most bytes of scripts and styles, gzipped, that a reader loads: 120 KB, a choice. */
const BUDGET = 120_000

/** Writes `.gz` and `.br` beside each file, and fails the build when the page has grown over its budget. */
function compressed(): Plugin {
  return {
    name: 'compressed',
    apply: 'build',
    enforce: 'post',
    // After Vite's own last changes to the chunks, which are made in this hook as well.
    generateBundle: {
      order: 'post',
      handler(_, bundle) {
        let total = 0
        for (const [name, file] of Object.entries(bundle)) {
          const content = file.type === 'chunk' ? file.code : file.source
          const bytes = typeof content === 'string' ? Buffer.from(content) : Buffer.from(content)
          const zipped = gzipSync(bytes, { level: 9 })
          if (/\.(js|css|html)$/.test(name)) total += zipped.length
          const quality = { [constants.BROTLI_PARAM_QUALITY]: 11 }
          this.emitFile({ type: 'asset', fileName: `${name}.gz`, source: zipped })
          this.emitFile({
            type: 'asset',
            fileName: `${name}.br`,
            source: brotliCompressSync(bytes, { params: quality }),
          })
        }
        if (total > BUDGET) this.error(`the page has ${total} bytes gzipped, more than ${BUDGET}`)
        console.log(`the page has ${total} bytes gzipped, of at most ${BUDGET}`)
      },
    },
  }
}

/** Where the server reads the page, and where it is built before. Both are on one file system. */
const SERVED = new URL('../python/seqferry/api/page', import.meta.url)
const BUILT = new URL('dist/page', import.meta.url)
const REPLACED = new URL('dist/replaced', import.meta.url)

/**
 * Puts a page that was built whole in the place of the one that is served: a server that starts meanwhile finds the old
 * one or the new one, and after a failed build the old one stays.
 */
function replaces(): Plugin {
  return {
    name: 'replaces',
    apply: 'build',
    // Runs only when all files were written; `closeBundle` runs after a failed build as well.
    writeBundle: {
      order: 'post',
      sequential: true,
      handler() {
        rmSync(REPLACED, { recursive: true, force: true })
        if (existsSync(SERVED)) renameSync(SERVED, REPLACED)
        renameSync(BUILT, SERVED)
        rmSync(REPLACED, { recursive: true, force: true })
      },
    },
  }
}

/** For `npm run dev`: the server that answers for the API. */
const SERVER = process.env.SEQFERRY_URL ?? 'http://127.0.0.1:8080'

export default defineConfig({
  // Relative addresses: the page works below any prefix of a proxy.
  base: './',
  plugins: [svelte(), compressed(), replaces()],
  build: {
    outDir: 'dist/page',
    emptyOutDir: true,
    // The policy of the page blocks `data:`.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    license: { fileName: 'licenses.md' },
    reportCompressedSize: false,
  },
  // No `changeOrigin`: a server without tokens answers only to names of this machine.
  server: { proxy: Object.fromEntries(['/api', '/readyz'].map((path) => [path, SERVER])) },
  test: { include: ['tests/**/*.test.ts'], environment: 'node' },
})
