import { Code, Text } from '@mantine/core';
import type { ReactNode } from 'react';

const SHOWN_MAX = 600;

/** A text, and below it what belongs to it and the rest of a long one, which is opened on demand. */
export function WithDetails({ details, children }: { details: unknown; children: ReactNode }) {
  const isEmpty =
    details === null ||
    details === undefined ||
    (typeof details === 'object' && Object.keys(details).length === 0);
  const isLong = typeof children === 'string' && children.length > SHOWN_MAX;
  return (
    <>
      <Text size="sm" style={{ whiteSpace: 'pre-wrap', overflowWrap: 'anywhere' }}>
        {isLong ? `${children.slice(0, SHOWN_MAX)} …` : children}
      </Text>
      {isLong && (
        <details>
          <summary>All of it</summary>
          <Code block tabIndex={0} mah={360} style={{ overflow: 'auto', whiteSpace: 'pre-wrap' }}>
            {children}
          </Code>
        </details>
      )}
      {!isEmpty && (
        <details>
          <summary>Details</summary>
          {/* Reached by keyboard, because a long one scrolls. */}
          <Code block tabIndex={0} mah={260} style={{ overflow: 'auto' }}>
            {JSON.stringify(details, undefined, 2)}
          </Code>
        </details>
      )}
    </>
  );
}
