import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';

const FEATURES = path.join(import.meta.dirname, '../../src/dashboard/features');

/** The addresses of all pages that the doors of the dashboard's features declare, with and without sign-in. */
export function declaredPages(): { signedIn: string[]; public: string[] } {
  const files = readdirSync(FEATURES, { recursive: true, encoding: 'utf8' }).filter((file) =>
    /\b(pages|index)\.ts$/.test(file),
  );
  const found = files.flatMap((file) => {
    const text = readFileSync(path.join(FEATURES, file), 'utf8');
    const parentOfAll = /const getParentRoute = \(\) => (\w+)Route;/.exec(text)?.[1];
    return [...text.matchAll(/getParentRoute(?:: \(\) => (\w+)Route)?,\s+path: '([^']+)'/g)].map(
      ([, parent = parentOfAll, address = '']) => ({ parent, address }),
    );
  });
  const of = (name: string) => found.filter(({ parent }) => parent === name).map(({ address }) => address);
  return { signedIn: of('signedIn'), public: of('public') };
}
