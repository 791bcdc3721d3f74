import { Button } from '@mantine/core';
import { useEffect, useState } from 'react';
import { Empty } from '../../ui/index.ts';
import { reloadOnce, whenReachable } from './new-version.ts';

const TEXTS = {
  asking: 'The page asks the server why.',
  away: 'The server cannot be reached. The page is loaded again as soon as it answers.',
  updated: 'Muster has been updated. The page is loaded again, with the new version.',
  failed: 'The server answers, but a part of the page does not arrive. Its log may say why.',
};

/** In place of a page of which a part could not be loaded. */
export function MissingPart() {
  const [state, setState] = useState<keyof typeof TEXTS>('asking');
  useEffect(() => {
    const watching = new AbortController();
    const watch = async () => {
      const isUpdate = await whenReachable(watching.signal, () => setState('away'));
      if (watching.signal.aborted) return;
      setState(reloadOnce({ isUpdate }) && isUpdate ? 'updated' : 'failed');
    };
    // It ends early only when nobody sees it any more.
    watch().catch(() => undefined);
    return () => watching.abort();
  }, []);
  return (
    <Empty
      title="A part of this page could not be loaded"
      action={
        state === 'failed' && <Button onClick={() => window.location.reload()}>Load the page again</Button>
      }
    >
      <span role="status">{TEXTS[state]}</span>
    </Empty>
  );
}
