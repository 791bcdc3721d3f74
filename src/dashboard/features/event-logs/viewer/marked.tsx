import { memo } from 'react';
import { markMatches } from '../model/highlight.ts';
import styles from './log-rows.module.css';

/** A text in which the words that somebody looks for are marked. */
export const Marked = memo(function Marked({ text, words }: { text: string; words: readonly string[] }) {
  if (words.length === 0) return text;
  return markMatches(text, words).map(({ text: part, isMatch }, place) =>
    isMatch ? (
      // The parts of a text have no names of their own, and none of them is ever moved.
      // oxlint-disable-next-line react/no-array-index-key
      <mark key={place} className={styles['mark']}>
        {part}
      </mark>
    ) : (
      part
    ),
  );
});
