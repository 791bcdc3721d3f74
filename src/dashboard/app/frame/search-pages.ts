import type { NavigateOptions } from '@tanstack/react-router';
import type { SearchResult } from '../../api/index.ts';

/** The page that shows a result of the search. */
export function pageOf({ type, id, href }: SearchResult): NavigateOptions | undefined {
  switch (type) {
    case 'devices':
      return { to: '/devices/$deviceId', params: { deviceId: id } };
    case 'settings':
      return href === undefined ? undefined : { href };
    case 'scripts':
    case 'alerts':
      return undefined;
    default:
      return undefined;
  }
}
