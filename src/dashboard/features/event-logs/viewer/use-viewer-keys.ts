import { useEffect, useRef } from 'react';

export type ViewerKey =
  | 'find'
  | 'filter'
  | 'next'
  | 'previous'
  | 'first'
  | 'last'
  | 'pageDown'
  | 'pageUp'
  | 'open'
  | 'repeats'
  | 'close'
  | 'tail'
  | 'export'
  | 'help';

/** Wherever the focus is, except in a field. */
const ANYWHERE: Record<string, ViewerKey> = {
  '/': 'find',
  f: 'filter',
  j: 'next',
  k: 'previous',
  t: 'tail',
  e: 'export',
  '?': 'help',
  Escape: 'close',
};
/** In the list, in the panel of the entry, and where nothing has the focus. */
const IN_LIST: Record<string, ViewerKey> = {
  ArrowDown: 'next',
  ArrowUp: 'previous',
  Home: 'first',
  End: 'last',
  PageDown: 'pageDown',
  PageUp: 'pageUp',
  Enter: 'open',
  ' ': 'repeats',
};
const ARROWS: readonly string[] = ['ArrowDown', 'ArrowUp'];

/** The keys of the viewer, which hold on the whole page, as staff on the phone have one hand free. */
export function useViewerKeys(act: (key: ViewerKey) => void): void {
  const latest = useRef(act);
  useEffect(() => {
    latest.current = act;
  });
  useEffect(() => {
    const onKeyDown = (event: KeyboardEvent) => {
      const key = keyOf(event);
      if (key === undefined) return;
      event.preventDefault();
      // "?" would also open the general list of keys.
      event.stopPropagation();
      latest.current(key);
    };
    window.addEventListener('keydown', onKeyDown, { capture: true });
    return () => window.removeEventListener('keydown', onKeyDown, { capture: true });
  }, []);
}

function keyOf(event: KeyboardEvent): ViewerKey | undefined {
  const { target, key } = event;
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return undefined;
  if (!(target instanceof HTMLElement)) return undefined;
  if (target.closest('[role="dialog"],[role="menu"],[role="listbox"]') !== null) return undefined;
  if (target.isContentEditable || /^(?:INPUT|TEXTAREA|SELECT)$/.test(target.tagName)) return undefined;
  const isOpenMenu = document.querySelector('[role="menu"]:not([hidden])') !== null;
  if (isOpenMenu) return undefined;
  const isChart = target.closest('[role="slider"]') !== null;
  const anywhere = ANYWHERE[key];
  if (anywhere !== undefined) return key === 'Escape' && isChart ? undefined : anywhere;
  const isList = target.closest('[data-log-rows]') !== null;
  const isPanel = target.closest('[data-entry-panel]') !== null;
  const isNowhere = target === document.body || target.matches('main, h1');
  if (isList || isNowhere) return IN_LIST[key];
  // In the panel, Enter and Space belong to its buttons, and the other keys scroll.
  return isPanel && ARROWS.includes(key) ? IN_LIST[key] : undefined;
}
