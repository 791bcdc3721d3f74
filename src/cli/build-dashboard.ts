import path from 'node:path';
import { build } from 'vite';
import { compressPageFiles } from '../platform/http/single-page.ts';
import { PROJECT_ROOT } from '../platform/project-root.ts';
import { ensureBuild } from '../server/dashboard.ts';

/** `npm run build:dashboard` builds the dashboard, unless it is built already. A server that starts does the same. */
const folder = await ensureBuild(PROJECT_ROOT, async (outDir) => {
  await build({
    configFile: path.join(PROJECT_ROOT, 'src/dashboard/vite.config.ts'),
    build: { outDir, emptyOutDir: true },
    logLevel: 'warn',
  });
  await compressPageFiles(outDir);
});
process.stdout.write(`The dashboard is in ${path.relative(PROJECT_ROOT, folder)}.\n`);
