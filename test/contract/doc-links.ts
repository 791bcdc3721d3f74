import path from 'node:path';

/** What the rules need to know of the repository. Paths are relative to its root, with forward slashes. */
export interface Repository {
  exists(file: string): boolean;
  /** Whether at least one file matches a path with `*` in it. */
  matches(pattern: string): boolean;
  npmScripts: ReadonlySet<string>;
}

const LINK = /\]\((?<target>[^)\s]+)\)/g;
const CODE = /`(?<code>[^`\n]+)`/g;
const FENCED = /^```[\s\S]*?^```/gm;
const PATH = /^(?:src|test|docs|migrations|bench|seeds|clients|\.ci)(?:\/|$)/;
const FILE_NAME = /^[\w./-]+\.(?:ts|mjs|sql|md|py)$/;
/** An import of a code example that leaves the folder of the example. */
const OUTER_IMPORT = /from '(?:\.\.\/)+(?<file>[^']+)'/g;
/** Where the examples import from: their files lie at different depths. */
const IMPORTED_FROM = ['src', 'src/features', 'src/dashboard', 'src/dashboard/features', 'test'];
const NPM_RUN = /npm (?:run (?<script>[\w:-]+)|(?<short>test|start)\b)/g;
/** Stands for a name that the reader chooses, as in `<noun>.schema.ts`. */
const PLACEHOLDER = /[<{…]/;
/** Written by a command, so it is not part of the repository. */
const GENERATED = new Set(['bench/results/hub.json', 'clients/typescript/dist']);
/** The feature that docs/adding-a-feature.md builds. */
const EXAMPLE = /^(?:src|src\/dashboard|test\/server)\/features\/contacts\//;

/** The references of a page that lead nowhere, each as one line. */
export function brokenReferences(page: string, text: string, repository: Repository): string[] {
  const prose = text.replaceAll(FENCED, '');
  return [
    ...brokenLinks(page, prose, repository),
    ...brokenPaths(prose, repository),
    ...unknownScripts(text, repository),
    ...brokenImports(text, repository),
  ].map((fault) => `${page}: ${fault}`);
}

function brokenLinks(page: string, prose: string, { exists }: Repository): string[] {
  return found(prose, LINK, 'target').flatMap((target) => {
    if (/^(?:https?:|mailto:|#)/.test(target)) return [];
    const file = path.posix.join(path.posix.dirname(page), target.replace(/#.*$/, ''));
    return exists(file) ? [] : [`the link ${target} leads to no file`];
  });
}

function brokenPaths(prose: string, { exists, matches }: Repository): string[] {
  return found(prose, CODE, 'code').flatMap((code) => {
    if (PLACEHOLDER.test(code) || /\s/.test(code) || GENERATED.has(code) || EXAMPLE.test(code)) return [];
    if (PATH.test(code)) {
      const isThere = code.includes('*') ? matches(code) : exists(code);
      return isThere ? [] : [`\`${code}\` does not exist`];
    }
    if (!FILE_NAME.test(code) || exists(code)) return [];
    return [`\`${code}\` needs its whole path, so that it can be found and checked`];
  });
}

function brokenImports(text: string, { exists }: Repository): string[] {
  const examples = (text.match(FENCED) ?? []).join('\n');
  return found(examples, OUTER_IMPORT, 'file')
    .filter((file) => !IMPORTED_FROM.some((folder) => exists(`${folder}/${file}`)))
    .map((file) => `an example imports ${file}, which does not exist`);
}

function unknownScripts(text: string, { npmScripts }: Repository): string[] {
  return [...text.matchAll(NPM_RUN)].flatMap(({ groups }) => {
    const script = groups?.['script'] ?? groups?.['short'] ?? '';
    return npmScripts.has(script) ? [] : [`package.json has no script "${script}"`];
  });
}

const found = (text: string, pattern: RegExp, group: string): string[] =>
  [...text.matchAll(pattern)].flatMap(({ groups }) => groups?.[group] ?? []);

const SECTIONS = ['Background', 'Decision', 'Consequence'];

/** What a decision page and its line in the index lack, each as one line. */
export function pageFaults(file: string, text: string, index: string): string[] {
  const [title = '', blank, summary = ''] = text.split('\n');
  const sections = [...text.matchAll(/^## (?<name>.+)$/gm)].flatMap(({ groups }) => groups?.['name'] ?? []);
  const required = sections.filter((name) => SECTIONS.includes(name));
  const line = `| [${title.slice(2)}](${file}) | ${summary} |`;
  return [
    ...(title.startsWith('# ') && blank === '' ? [] : ['has no title followed by an empty line']),
    ...(/^[A-Z`].*\.$/.test(summary) ? [] : ['has no sentence with the decision below its title']),
    ...(required.join() === SECTIONS.join()
      ? []
      : [`needs the sections ${SECTIONS.join(', ')} in this order`]),
    ...(index.split('\n').includes(line) ? [] : [`needs this line in docs/decisions/README.md: ${line}`]),
  ].map((fault) => `${file} ${fault}`);
}
