import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { join, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Graph, buildGraph } from './import-graph.ts';

export const root = fileURLToPath(new URL('../..', import.meta.url));

export const isSource = (path: string): boolean => /\.tsx?$/.test(path);

function filesBelow(folder: string): string[] {
  if (!existsSync(join(root, folder))) return [];
  return readdirSync(join(root, folder), { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    return entry.isDirectory() ? filesBelow(path) : [path.split(sep).join('/')];
  });
}

/** The imports of the whole project. */
export function projectGraph(): Graph {
  const own = ['src', 'seeds', 'clients/typescript/src', 'clients/typescript/examples']
    .flatMap(filesBelow)
    .filter(isSource);
  if (existsSync(join(root, 'knexfile.ts'))) own.push('knexfile.ts');
  const sources = new Map(own.map((path) => [path, readFileSync(join(root, path), 'utf8')]));
  return buildGraph(sources, (path) => existsSync(join(root, path)));
}
