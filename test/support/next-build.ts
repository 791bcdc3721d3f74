import { createHash } from 'node:crypto';
import path from 'node:path';
import type { PageFiles } from '../../src/platform/http/single-page.ts';

/** The same page as another build has it: every file below /assets has another name, and the earlier names are gone. */
export function nextBuild(files: PageFiles): PageFiles {
  const renamed = new Map(
    [...files.keys()]
      .filter((name) => name.startsWith('/assets/'))
      .map((name) => {
        const { name: stem, ext, base } = path.posix.parse(name);
        return [base, `${stem}-next${ext}`] as const;
      }),
  );
  const names = new RegExp([...renamed.keys()].map((name) => name.replaceAll('.', '\\.')).join('|'), 'g');
  const rename = (text: string) => text.replaceAll(names, (name) => renamed.get(name) ?? name);
  return new Map(
    [...files].map(([name, { plain }]) => {
      const content = /\.(html|js|css)$/.test(name) ? Buffer.from(rename(plain.toString('utf8'))) : plain;
      const hash = createHash('sha256').update(content).digest('base64url');
      return [rename(name), { hash, plain: content }];
    }),
  );
}
