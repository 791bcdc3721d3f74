/** The routes that a document of the specification names, as `METHOD /path`, with parameters that have no names. */

const METHOD = '(?:GET|POST|PUT|PATCH|DELETE)';
/** `GET /a`, `| GET | /a`, `GET, PATCH (shallow merge), DELETE /a` and `GET/PATCH /a`, with or without backquotes. */
const NAMED = new RegExp(
  `(${METHOD}(?:(?:, |/)${METHOD}(?: \\([^)]*\\))?)*)(?: \\| | )(/(?!:)[\\w/:.-]*)`,
  'g',
);

export function namedRoutes(text: string): string[] {
  const found = [...text.matchAll(NAMED)].flatMap(([, methods = '', path = '']) =>
    [...methods.matchAll(new RegExp(METHOD, 'g'))].map(([method]) => withoutNames(`${method} ${path}`)),
  );
  return [...new Set(found)].toSorted();
}

export const withoutNames = (route: string) => route.replace(/[.:]+$/, '').replaceAll(/:\w+/g, ':');

/** The text of the sections that are numbered so: `## 4. Endpoints` up to the next heading of this level. */
export function sections(text: string, numbers: readonly number[]): string {
  return text
    .split(/^(?=## )/m)
    .filter((section) => numbers.includes(Number(/^## (\d+)\./.exec(section)?.[1])))
    .join('');
}
