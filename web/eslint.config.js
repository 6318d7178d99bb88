import svelte from 'eslint-plugin-svelte'
import ts from 'typescript-eslint'
import config from './svelte.config.js'

export default ts.config(
  { ignores: ['node_modules/', 'dist/', 'src/api/schema.d.ts'] },
  ...ts.configs.strict,
  ...svelte.configs.recommended,
  {
    files: ['**/*.svelte', '**/*.svelte.ts'],
    languageOptions: { parserOptions: { parser: ts.parser, extraFileExtensions: ['.svelte'], svelteConfig: config } },
  },
  {
    rules: {
      // Text of others never becomes markup.
      'svelte/no-at-html-tags': 'error',
      // Links are fragments of this page, by `addressOf`.
      'svelte/no-navigation-without-resolve': 'off',
      'no-restricted-properties': ['error', { property: 'innerHTML' }, { property: 'outerHTML' }],
      eqeqeq: 'error',
    },
  },
)
