import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { API_INFO } from '../api-info.ts';
import { environmentExample } from '../config.ts';
import { routesAsData } from '../features/index.ts';
import { openApi } from '../platform/http/open-api.ts';
import { socketMarkdown } from '../platform/http/socket-reference.ts';
import { SOCKET_REFERENCE } from '../protocol/index.ts';
import { dashboardTypes } from './dashboard-types.ts';

/** `npm run docs` writes the documents that are derived from the code. They are committed, so that reviews show their changes. */

const root = process.cwd();
await mkdir(path.join(root, 'docs'), { recursive: true });
const document = openApi(routesAsData(), API_INFO);
await writeFile(path.join(root, 'docs/openapi.json'), `${JSON.stringify(document, null, 2)}\n`);
await writeFile(path.join(root, 'src/dashboard/api/routes.ts'), await dashboardTypes(document));
await writeFile(path.join(root, 'docs/socket-protocol.md'), socketMarkdown(SOCKET_REFERENCE));
await writeFile(path.join(root, '.env.example'), environmentExample());
