import { useCallback, useEffect, useState, useSyncExternalStore } from 'react';
import { queryEventLogs, useReturnOfConnection } from '../../live/index.ts';
import { LogFeed, type FeedState } from './log-feed.ts';

/** A feed that lives as long as the component. */
export function useLogFeed(): { feed: LogFeed; state: FeedState } {
  const [feed] = useState(() => new LogFeed(queryEventLogs));
  useEffect(() => () => feed.close(), [feed]);
  useReturnOfConnection(useCallback(() => feed.followAgain(), [feed]));
  return { feed, state: useSyncExternalStore(feed.watch, () => feed.state) };
}
