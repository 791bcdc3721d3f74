import type { NavigateOptions } from '@tanstack/react-router';
import type { SearchResult } from '../../api/index.ts';

/** The page that shows a result of the search. */
export function pageOf({ type, id, title, href }: SearchResult): NavigateOptions | undefined {
  switch (type) {
    case 'devices':
      return { to: '/devices/$deviceId', params: { deviceId: id } };
    case 'settings':
      return href === undefined ? undefined : { href };
    case 'scripts':
      return { to: '/scripts/$scriptId', params: { scriptId: id } };
    case 'alerts':
      return { to: '/alerts', search: { q: title, status: ['active', 'acknowledged', 'resolved'] } };
    default:
      return undefined;
  }
}
