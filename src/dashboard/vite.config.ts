import react from '@vitejs/plugin-react';
import { defineConfig } from 'vite';

/** `npm run build:dashboard` builds the dashboard into dist/dashboard, from where the server serves it. */
export default defineConfig({
  root: import.meta.dirname,
  plugins: [react()],
  build: {
    outDir: '../../dist/dashboard',
    emptyOutDir: true,
    target: 'es2022',
    // The page's policy forbids inline scripts, and every browser that runs Muster's dashboard preloads modules itself.
    modulePreload: { polyfill: false },
    // Fonts and images stay files, so that the policy need not allow data: for more than images.
    assetsInlineLimit: 0,
    // In KiB, before compression. A test watches what the first page needs.
    chunkSizeWarningLimit: 1_000,
    // Importing a module of ours does nothing by itself, so that what a page does not use is left out of it.
    rolldownOptions: {
      // The code of every page comes in two files, of which one changes with our own code only: a browser asks for few
      // files at once, so that many small ones would keep the first paint waiting.
      output: {
        codeSplitting: {
          groups: [
            { name: 'libraries', tags: ['$initial'], test: /node_modules/ },
            { name: 'frame', tags: ['$initial'] },
            { name: 'socket', test: /node_modules\/(socket|engine)\.io-/ },
          ],
        },
      },
      treeshake: {
        // Making a schema does nothing by itself either, so that what is only sent between agents and the server is left out.
        manualPureFunctions: ['z'],
        moduleSideEffects: [{ test: /src\/(protocol|dashboard)\/.*\.tsx?$/, sideEffects: false }],
      },
    },
  },
  server: {
    // `npm run dashboard` serves the sources beside a Muster that runs on its usual port.
    proxy: Object.fromEntries(
      ['/api/v1', '/hub', '/docs', '/health', '/install.sh', '/install.ps1'].map((path) => [
        path,
        { target: 'http://127.0.0.1:3000', ws: path === '/hub' },
      ]),
    ),
  },
});
