import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { API_INFO } from '../api-info.ts';
import { environmentExample } from '../config.ts';
import { routesAsData } from '../features/index.ts';
import { openApi } from '../platform/http/open-api.ts';

/** `npm run docs`: writes what is derived from the code and committed, so that a review sees it change. */

const root = process.cwd();
await mkdir(path.join(root, 'docs'), { recursive: true });
await writeFile(
  path.join(root, 'docs/openapi.json'),
  `${JSON.stringify(openApi(routesAsData(), API_INFO), null, 2)}\n`,
);
await writeFile(path.join(root, '.env.example'), environmentExample());
