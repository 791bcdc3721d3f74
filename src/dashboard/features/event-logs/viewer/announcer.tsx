import { VisuallyHidden } from '@mantine/core';
import { useEffect, useRef, useState } from 'react';
import { countsText } from '../model/histogram.ts';
import { countLevels, type LogRow } from '../model/log-row.ts';

const EVERY_MS = 10_000;

/** Announces to readers of screens how many entries have come, at most every ten seconds, never the entries themselves. */
export function Announcer({ rows, waiting }: { rows: readonly LogRow[]; waiting: number }) {
  const latest = useRef({ rows, waiting });
  useEffect(() => {
    latest.current = { rows, waiting };
  });
  const [text, setText] = useState('Following new entries.');
  useEffect(() => {
    let known = new Set(latest.current.rows.map(({ key }) => key));
    const timer = setInterval(() => {
      const { rows: now, waiting: held } = latest.current;
      const fresh = now.filter(({ key }) => !known.has(key));
      known = new Set(now.map(({ key }) => key));
      if (held > 0) setText(`Paused, ${held} new entries are waiting.`);
      else if (fresh.length > 0) setText(`${fresh.length} new entries: ${countsText(countLevels(fresh))}.`);
    }, EVERY_MS);
    return () => clearInterval(timer);
  }, []);
  return (
    <VisuallyHidden role="log" aria-label="New entries">
      {text}
    </VisuallyHidden>
  );
}
