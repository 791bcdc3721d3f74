import { useEffect, useState } from 'react';

/** The token of a mailed link. It is taken out of the address, so that nobody finds it in the history of the browser. */
export function useMailedToken(): string | undefined {
  const [token] = useState(
    () => new URLSearchParams(window.location.hash.slice(1)).get('token') ?? undefined,
  );
  useEffect(() => {
    window.history.replaceState(window.history.state, '', window.location.pathname);
  }, []);
  return token;
}
