// Part of `npm run docs`: draws the picture of docs/architecture.md anew.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { withPicture } from './architecture-picture.ts';
import { projectGraph, root } from './project-graph.ts';

const page = join(root, 'docs/architecture.md');
writeFileSync(page, withPicture(readFileSync(page, 'utf8'), projectGraph()));
