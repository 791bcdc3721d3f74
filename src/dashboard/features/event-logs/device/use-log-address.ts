import { useNavigate, useRouterState } from '@tanstack/react-router';
import { useCallback, useMemo } from 'react';
import { LogSearch } from '../model/log-search.ts';

/** The conditions in the address, on whichever page the viewer stands. */
export function useLogAddress(): {
  search: LogSearch;
  /** @param isStep  whether "back" in the browser leads back to what was shown before */
  change: (change: Partial<LogSearch>, isStep?: boolean) => void;
} {
  const raw = useRouterState({ select: ({ location }) => location.searchStr });
  const parsed = useRouterState({ select: ({ location }): unknown => location.search });
  // The parsed object is made anew at each navigation; the text says whether it is another one.
  // oxlint-disable-next-line react-hooks/exhaustive-deps
  const search = useMemo(() => LogSearch.parse(parsed ?? {}), [raw]);
  const navigate = useNavigate();
  const change = useCallback(
    (next: Partial<LogSearch>, isStep = false) =>
      void navigate({ to: '.', search: (known) => ({ ...known, ...next }), replace: !isStep }),
    [navigate],
  );
  return { search, change };
}
