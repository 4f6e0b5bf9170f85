__all__ = ['ttypes', 'constants', 'Echo', 'Newer']
