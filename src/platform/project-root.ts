import path from 'node:path';
import { fileURLToPath } from 'node:url';

/** The folder that holds `src` in a checkout, and `dist` where the compiled programs are; `package.json` is there. */
export const PROJECT_ROOT = rootOf(path.dirname(fileURLToPath(import.meta.url)));

function rootOf(here: string): string {
  const root = here.slice(0, here.lastIndexOf(`${path.sep}src${path.sep}`));
  return path.basename(root) === 'dist' ? path.dirname(root) : root;
}
